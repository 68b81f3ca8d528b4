import assert from 'node:assert';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';

const { run } = await import(`${process.env.ASSAY_LIB}/assay-isolated.mjs`);
const probe = readFileSync(new URL('./probe.js', import.meta.url), 'utf8');
const everything = 1;

/**
 * Parses in a process of the agent's. Afterwards a function, an object, an array, a string and a number must show what was
 * planted in them and in all objects, under names that nobody could know, and nothing else.
 */
export function parse(args, options = {}) {
  const planted = Array.from({ length: 5 }, () => `k${randomBytes(8).toString('hex')}`);
  const ran = run(['node', '-e', probe], { input: JSON.stringify({ args, options, planted }) });
  if (ran.code !== 0) throw new Error(`${ran.end} ${ran.detail}: ${ran.stderr}`);
  const { result, gained, intact } = JSON.parse(ran.text);
  const expected = planted.map((name, kind) => (kind === everything ? [name] : [name, planted[everything]]));
  assert.deepStrictEqual(
    gained.map((names) => names.sort()),
    expected.map((names) => names.sort()),
  );
  assert.strictEqual(intact, true);
  return result;
}
