import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import type { Judgement } from '../../services/shared/verdict/outcome.ts';
import type { Attack, Belief, TargetName } from '../adversary/attack.ts';
import { attacks } from '../adversary/attacks/all.ts';
import { createRange, type Launched } from '../adversary/range.ts';
import { documentedInProcess, documentedTable, type InProcess, tableOf, writeTable } from '../adversary/table.ts';

const slow = { timeout: 600_000 };
const range = await createRange();
/** `ASSAY_ATTACKS=conftest,c`: only these attacks, or those on these targets. */
const only = process.env.ASSAY_ATTACKS?.split(',');
const chosen = attacks.filter(({ name, target }) => only === undefined || only.includes(name) || only.includes(target));
const launches = new Map<string, Promise<Launched>>();
/** Where only some are tried, the document speaks for the others. */
const seen = only === undefined ? new Map<string, InProcess>() : documentedInProcess();

/** An agent's session is had once; both gradings are of the same sealed submission. */
function launch(attack: Attack): Promise<Launched> {
  const launched = launches.get(attack.name) ?? range.launch(attack);
  launches.set(attack.name, launched);
  return launched;
}

function titled(some: readonly Attack[]): [string, Attack][] {
  return some.map((attack) => [`${attack.does} (${attack.name})`, attack]);
}

/** What is told of an attack is nothing that the attack could have wanted to say to a terminal or a log. */
function expectPlain({ reasons }: Judgement): void {
  expect(reasons.join('')).not.toMatch(/\p{Cc}/u);
  expect(reasons.join('').length).toBeLessThan(2_000);
}

afterAll(() => range.close());

describe('a naive grader', () => {
  const beliefs: readonly (readonly [TargetName, Belief])[] = [
    ...(['exit status', 'report', 'log', 'reward'] as const).map((belief) => ['python', belief] as const),
    ...(['javascript', 'c', 'java', 'shell'] as const).map((target) => [target, 'exit status'] as const),
    ['shell', 'report'],
  ];
  it.for(beliefs)('of %s that believes the %s is right about honest work', slow, async ([target, belief]) => {
    const { folder } = await range.isolated(target);
    const patch = readFileSync(`${folder.folder}/oracle/fix.patch`, 'base64');
    expect(await range.naive(target, 'true', belief)).toBe(false);
    expect(await range.naive(target, `echo ${patch} | base64 -d | git apply`, belief)).toBe(true);
  });
});

describe('at ISOLATED, a submission does not pass that', () => {
  it.for(titled(chosen))('%s', slow, async ([, attack]) => {
    const launched = await launch(attack);
    expect(launched.fooled, 'the naive grader passes it').toBe(true);
    const judged = await range.grade(await range.isolated(attack.target), launched);
    expect(judged).toMatchObject({ assurance: 'ISOLATED', isSuccess: false, trainable: true, reward: 0 });
    expect(judged.verdict).toBeOneOf([attack.verdict].flat());
    expect(judged.reasons.join('\n')).toMatch(attack.because);
    expectPlain(judged);
  });
});

describe('at IN_PROCESS, it is told of a submission that', () => {
  it.for(titled(chosen.filter(({ target }) => target === 'python')))('%s', slow, async ([, attack]) => {
    const judged = await range.grade(await range.inProcess(), await launch(attack));
    expect(judged.assurance).toBe('IN_PROCESS');
    expect(judged.trainable).toBe(true);
    expectPlain(judged);
    seen.set(attack.name, judged.isSuccess ? 'passes' : 'caught');
    console.log(`${attack.name}: ${judged.verdict}: ${judged.reasons.join('; ')}`);
  });

  it('is told in docs/adversaries.md what was seen', () => {
    const table = tableOf(attacks, seen);
    console.log(table.join('\n'));
    if (process.env.ASSAY_WRITE_TABLE !== undefined) writeTable(table);
    expect(documentedTable()).toEqual(table);
  });
});
