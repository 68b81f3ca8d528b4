#!/usr/bin/env node
// npm run generate: gen/ and the baseline from the protos. `-- --break` accepts a change that breaks clients.
import { delimiter, dirname, join } from 'node:path';
import { checkBreaking, writeBaseline } from './proto-baseline.mjs';
import { reportAndExit } from './setup/failure.mjs';
import { setup } from './setup/index.mjs';
import { programPath, repository } from './setup/paths.mjs';
import { run } from './setup/program.mjs';
import { step } from './setup/progress.mjs';

const found = await setup({ only: 'packages' }).catch(reportAndExit);
const binaries = join(repository, 'node_modules', '.bin');
const env = { NO_COLOR: '1', PATH: [dirname(found.nodePath), binaries, programPath()].join(delimiter) };
const buf = (...args) => run(join(binaries, 'buf'), args, { cwd: repository, env, keep: 1000 });

await step('buf generate', () => buf('generate')).catch(reportAndExit);
if (!process.argv.includes('--break')) await step('buf breaking', () => checkBreaking(buf)).catch(reportAndExit);
await step('proto/baseline.binpb', () => writeBaseline(buf)).catch(reportAndExit);
