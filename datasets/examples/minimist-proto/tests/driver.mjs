import { readFileSync } from 'node:fs';

const { run } = await import(`${process.env.ASSAY_LIB}/assay-isolated.mjs`);
const probe = readFileSync(new URL('./probe.js', import.meta.url), 'utf8');

/** Parses in a process of the agent's; tells the result and what functions, objects and arrays have gained by it. */
export function parse(args, options = {}) {
  const result = run(['node', '-e', probe], { input: JSON.stringify({ args, options }) });
  if (result.code !== 0) throw new Error(`${result.end} ${result.detail}: ${result.stderr}`);
  return JSON.parse(result.text);
}
