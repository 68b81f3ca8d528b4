#!/usr/bin/env node
// npm run doctor [-- --json]: what Assay needs on this machine, what is there, and what to type for the rest.
import { examine } from './setup/examination.mjs';
import { reportAndExit } from './setup/failure.mjs';

const marks = { ok: '✓', warning: '!', missing: '✗' };

function asText(findings, ok) {
  const lines = findings.flatMap(({ name, state, found, type }) => [
    `${marks[state]} ${name.padEnd(16)} ${found}`,
    ...(type ? [`${' '.repeat(19)}type: ${type}`] : []),
  ]);
  lines.push('', ok ? 'All that Assay needs is here.' : 'Something is missing; npm start sets most of it up.');
  return lines.join('\n');
}

async function main() {
  const findings = await examine();
  const ok = findings.every(({ state }) => state !== 'missing');
  const json = process.argv.includes('--json');
  process.stdout.write(`${json ? JSON.stringify({ ok, findings }, null, 2) : asText(findings, ok)}\n`);
  process.exitCode = ok ? 0 : 1;
}

main().catch(reportAndExit);
