import { readFileSync, writeFileSync } from 'node:fs';
import { type Attack, foolsByConftest } from './attack.ts';

const path = new URL('../../docs/adversaries.md', import.meta.url).pathname;
const head = [
  '| attack | a submission that | fools by | at ISOLATED | at IN_PROCESS |',
  '| --- | --- | --- | --- | --- |',
];

/** What was seen of an attack on tests that load the submission: whether it passed. Undefined: not tried. */
export type InProcess = 'passes' | 'caught' | undefined;

/** One row for each attack, as docs/adversaries.md has it. */
export function tableOf(attacks: readonly Attack[], seen: ReadonlyMap<string, InProcess>): string[] {
  const rows = attacks.map((attack) => {
    const { name, does, verdict } = attack;
    const inProcess = seen.get(name);
    const fools = foolsByConftest(attack) ? `${attack.fools} (conftest)` : attack.fools;
    const verdicts = typeof verdict === 'string' ? verdict : verdict.join(' or ');
    return `| ${name} | ${does} | ${fools} | ${verdicts} | ${inProcess === 'passes' ? '**passes**' : (inProcess ?? '')} |`;
  });
  return [...head, ...rows];
}

/** The rows of the document. */
export function documentedTable(): string[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  const first = lines.indexOf(head[0] as string);
  const last = lines.findIndex((line, index) => index > first && !line.startsWith('|'));
  return lines.slice(first, last < 0 ? undefined : last);
}

/** What the document says of each attack at IN_PROCESS. */
export function documentedInProcess(): Map<string, InProcess> {
  const cells = documentedTable().map((line) => line.split('|').map((cell) => cell.trim()));
  return new Map(cells.map((row) => [row[1] as string, (row[5]?.replaceAll('*', '') || undefined) as InProcess]));
}

/** Puts what was seen into the document. */
export function writeTable(table: readonly string[]): void {
  const text = readFileSync(path, 'utf8');
  writeFileSync(
    path,
    text.replace(documentedTable().join('\n'), () => table.join('\n')),
  );
}
