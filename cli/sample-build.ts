import type { BuildEvent, BuildStepName, SampleName } from '../clients/typescript/index.ts';
import type { Context } from './context.ts';
import { writeSampleName } from './sample-name.ts';

const doing: Readonly<Record<BuildStepName, string>> = {
  FETCHING: 'fetching what its code is made from',
  ENVIRONMENT: 'building its environment',
  CODE: 'putting its code in place',
  MANIFEST: 'reading what its image holds',
};

/** Has a sample's image made before a session is, and says what it is at where that takes long. */
export async function buildFirst(context: Context, name: SampleName): Promise<void> {
  const told = new Set<BuildStepName>();
  for await (const event of context.client().samples.build(name)) {
    if (event.type !== 'progress' || told.has(event.step)) continue;
    told.add(event.step);
    context.note(`assay: ${writeSampleName(name)} is used for the first time: ${doing[event.step]}`);
  }
}

/** Every line of a build as it comes; JSON has one document for each. */
export async function showBuild(context: Context, name: SampleName): Promise<void> {
  const built: Extract<BuildEvent, { type: 'built' }>[] = [];
  for await (const event of context.client().samples.build(name)) {
    if (context.format === 'json') context.stdout.write(`${JSON.stringify(event)}\n`);
    else if (event.type === 'progress') {
      if (event.omittedLineCount > 0) context.note(`… ${event.omittedLineCount} lines left out`);
      context.note(event.line === '' ? doing[event.step] : event.line);
    }
    if (event.type === 'built') built.push(event);
  }
  if (context.format === 'json') return;
  for (const { workerId, image } of built) context.stdout.write(`${image} on ${workerId}\n`);
}
