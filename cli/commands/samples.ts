import type { Command } from 'commander';
import type { SampleInfo, TestGroupInfo } from '../../clients/typescript/index.ts';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { parseCount } from '../option-value.ts';
import { showBuild } from '../sample-build.ts';
import { requireSampleName } from '../sample-name.ts';
import { type ValidateOptions, validateSamples } from '../sample-validation.ts';
import { renderFields, renderSize, renderTable } from '../table.ts';

export function addSamplesCommand(program: Command, context: Context): void {
  const samples = program
    .command('samples')
    .description('see datasets and their samples, build their images, and validate them');
  const list = samples
    .command('ls')
    .description('list the samples of all datasets, or of one')
    .argument('[dataset]')
    .option('-q, --query <words>', 'only those in which all these words occur, the best match first')
    .option('--language <language>', 'only in this language')
    .option('--tag <tag>', 'only with this tag; repeatable', collect)
    .action((dataset: string | undefined, options: ListOptions) => listSamples(context, dataset, options));
  const show = samples
    .command('show')
    .description('show one sample with its instruction')
    .argument('<dataset/sample>', 'such as examples/hello-fix')
    .option('--version <version>', 'not the newest but this version')
    .option('--hints', 'also its hints')
    .action((name: string, options: ShowOptions) => showSample(context, name, options));
  const build = samples
    .command('build')
    .description('make the image of a sample on every worker, and show what is printed meanwhile')
    .argument('<dataset/sample>', 'such as examples/hello-fix, or with a version: examples/hello-fix@1.0.0')
    .action((name: string) => showBuild(context, requireSampleName(name, 'assay samples build')));
  const validate = samples
    .command('validate')
    .description('grade submissions of which is known how they must be graded, and keep the outcome')
    .argument('<dataset[/sample]>', 'one sample, or all of a dataset')
    .option('--repeat <times>', 'how often each is graded (default: 3)', parseCount)
    .action((name: string, options: ValidateOptions) => validateSamples(context, name, options));
  for (const command of [list, show, build, validate]) withCommonOptions(command, context);
}

function collect(text: string, before: string[] = []): string[] {
  return [...before, text];
}

interface ListOptions {
  query?: string;
  language?: string;
  tag?: string[];
}

async function listSamples(context: Context, dataset: string | undefined, options: ListOptions): Promise<void> {
  const { query, language, tag } = options;
  const found = context.client().samples.list({
    ...(dataset === undefined ? {} : { dataset }),
    ...(query === undefined ? {} : { query }),
    ...(language === undefined ? {} : { language }),
    ...(tag === undefined ? {} : { tags: tag }),
  });
  const samples = await Array.fromAsync(found);
  context.print(samples, () =>
    renderTable(
      ['SAMPLE', 'VERSION', 'LANGUAGE', 'ASSURANCE', 'TESTS', 'TITLE'],
      samples.map((sample) => [
        `${sample.dataset}/${sample.id}`,
        sample.version,
        sample.language,
        sample.assurance ?? '-',
        String(requiredTests(sample)),
        sample.title,
      ]),
    ),
  );
}

interface ShowOptions {
  version?: string;
  hints?: boolean;
}

async function showSample(context: Context, name: string, { version, hints = false }: ShowOptions): Promise<void> {
  const wanted = { ...requireSampleName(name, 'assay samples show'), ...(version === undefined ? {} : { version }) };
  const sample = await context.client().samples.get(wanted, { hints });
  context.print(sample, () => describe(sample));
}

function describe(sample: SampleInfo): string {
  const { limits } = sample;
  const fields = renderFields([
    ['sample', `${sample.dataset}/${sample.id}`],
    ['title', sample.title],
    ['version', sample.version],
    ['versions', sample.versions.length > 1 ? sample.versions.join(', ') : undefined],
    ['language', sample.language],
    ['tags', sample.tags.join(', ')],
    ['origin', sample.origin],
    ['working directory', sample.workingDirectory],
    ['cpus', limits.cpus?.toString()],
    ['memory', limits.memoryBytes === undefined ? undefined : renderSize(limits.memoryBytes)],
    ['disk', limits.diskBytes === undefined ? undefined : renderSize(limits.diskBytes)],
    ['pids', limits.pids?.toString()],
    ['network', sample.network.mode.toLowerCase()],
    ['assurance', sample.assurance],
    ...sample.testGroups.map((group) => [group.role?.toLowerCase() ?? '-', describeGroup(group)] as const),
    ['content', sample.contentDigest],
    ['image', sample.imageDigest],
    ['verification', sample.verificationDigest],
    ['validated', describeValidation(sample)],
    ['hints', sample.hints.length === 0 && sample.hintCount > 0 ? `${sample.hintCount}, with --hints` : undefined],
  ]);
  const hints = sample.hints.map((hint, index) => `hint ${index + 1}: ${hint.trim()}`);
  return [fields, sample.instruction.trim(), ...hints].join('\n\n');
}

function describeValidation({ validation }: SampleInfo): string | undefined {
  if (validation === undefined) return undefined;
  const { valid, gradingCount, flakeRate, time } = validation;
  return `${valid ? 'valid' : 'NOT valid'}, ${gradingCount} gradings, flake rate ${flakeRate}, ${time?.toISOString() ?? ''}`;
}

function describeGroup({ testCount, assurance, tests }: TestGroupInfo): string {
  const names = tests.length === 0 ? '' : `: ${tests.slice(0, 20).join(', ')}${tests.length > 20 ? ', …' : ''}`;
  return `${testCount} ${testCount === 1 ? 'test' : 'tests'}, ${assurance ?? '-'}${names}`;
}

function requiredTests({ testGroups }: SampleInfo): number {
  return testGroups.filter(({ role }) => role !== 'SENTINEL_FAIL').reduce((sum, { testCount }) => sum + testCount, 0);
}
