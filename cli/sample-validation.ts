import type {
  CandidateGradingInfo,
  CandidateKindName,
  SampleName,
  ValidationInfo,
} from '../clients/typescript/index.ts';
import type { Context } from './context.ts';
import { readSampleName, requireSampleName, writeSampleName } from './sample-name.ts';
import { renderTable } from './table.ts';

export interface ValidateOptions {
  repeat?: number;
}

/** As the columns of the table. */
const kinds: readonly CandidateKindName[] = ['ORACLE', 'HONEST', 'EMPTY', 'ADVERSARY'];

interface Validated {
  readonly sample: SampleName;
  readonly gradings: CandidateGradingInfo[];
  outcome: ValidationInfo | undefined;
}

/** Puts one sample or all of a dataset to the test, one after the other, and prints a row for each. */
export async function validateSamples(context: Context, name: string, { repeat }: ValidateOptions): Promise<void> {
  const done: Validated[] = [];
  for (const sample of await namesOf(context, name)) {
    const validated: Validated = { sample, gradings: [], outcome: undefined };
    done.push(validated);
    const options = repeat === undefined ? {} : { repetitions: repeat };
    for await (const event of context.client().samples.validate(sample, options)) {
      if (context.format === 'json') context.stdout.write(`${JSON.stringify({ sample, ...event })}\n`);
      if (event.type === 'outcome') validated.outcome = event;
      if (event.type !== 'grading') continue;
      validated.gradings.push(event);
      const { kind, adversary, attempt, verdict, durationMs } = event;
      const candidate = kind === 'ADVERSARY' ? `adversary: ${adversary}` : kind.toLowerCase();
      context.note(
        `${writeSampleName(sample)} ${candidate} ${attempt}: ${verdict} (${(durationMs / 1_000).toFixed(1)} s)`,
      );
    }
  }
  if (context.format === 'text') context.stdout.write(`${render(done)}\n`);
  if (done.some(({ outcome }) => outcome?.valid !== true)) context.exitCode = 1;
}

async function namesOf(context: Context, name: string): Promise<SampleName[]> {
  if (name.includes('/')) return [requireSampleName(name, 'assay samples validate')];
  const found = await Array.fromAsync(context.client().samples.list({ dataset: name }));
  return found.flatMap(({ dataset, id }) => readSampleName(`${dataset}/${id}`) ?? []);
}

function render(done: readonly Validated[]): string {
  const rows = done.map(({ sample, gradings, outcome }) => [
    writeSampleName(sample),
    ...kinds.map((wanted) => summarize(gradings.filter(({ kind }) => kind === wanted))),
    outcome === undefined ? '-' : String(outcome.flakeRate),
    outcome?.valid === true ? 'valid' : 'NOT VALID',
  ]);
  const table = renderTable(
    ['SAMPLE', 'ORACLE', 'WITH OWN TESTS', 'EMPTY', 'ADVERSARIES', 'FLAKE RATE', 'OUTCOME'],
    rows,
  );
  const problems = done.flatMap(({ sample, outcome }) =>
    (outcome?.problems ?? []).map((problem) => `${writeSampleName(sample)}: ${problem}`),
  );
  return [table, ...problems].join('\n');
}

/** `3/3 PASSED`: so many of its gradings were as they must be. */
function summarize(gradings: readonly CandidateGradingInfo[]): string {
  if (gradings.length === 0) return '-';
  const verdicts = [...new Set(gradings.map(({ verdict }) => verdict))].join(', ');
  return `${gradings.filter(({ deviations }) => deviations.length === 0).length}/${gradings.length} ${verdicts}`;
}
