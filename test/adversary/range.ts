import { expect } from 'vitest';
import type { Engine } from '../../services/sandbox-worker/docker/engine.ts';
import { rulesOf } from '../../services/sandbox-worker/submission/rules.ts';
import type { InvalidSealing, SealedSubmission } from '../../services/sandbox-worker/submission/seal.ts';
import type { SampleFolder } from '../../services/shared/sample/read-sample.ts';
import { judge } from '../../services/shared/verdict/judge.ts';
import type { Judgement } from '../../services/shared/verdict/outcome.ts';
import { mebibyte, nothingLeft } from '../sandbox-worker/docker/scratch-host.ts';
import { createGradingHost, type GradingHost } from '../sandbox-worker/grading/grading-host.ts';
import { runAsAgent } from './agent-container.ts';
import type { Attack, Belief, TargetName } from './attack.ts';
import { gradeNaively } from './naive-grader.ts';
import { inProcessTarget, isolatedTarget, type Target } from './target.ts';

const limits = { cpus: 1, memoryBytes: 512 * mebibyte, diskBytes: 512 * mebibyte, pids: 256 };

/** What an attack did: to the naive grader, and what was sealed of it before. */
export interface Launched {
  readonly fooled: boolean;
  readonly sealing: SealedSubmission | InvalidSealing;
}

/** Where attacks are tried: sessions of agents, the naive grader in them, and Assay's own grading. */
export interface Range {
  launch(attack: Pick<Attack, 'target' | 'fools' | 'recorded' | 'script'>): Promise<Launched>;
  /** Only the naive grader, for each thing that it may believe. */
  naive(target: TargetName, script: string, belief: Belief): Promise<boolean>;
  grade(target: Target, launched: Launched): Promise<Judgement>;
  isolated(name: TargetName): Promise<Target>;
  inProcess(): Promise<Target>;
  close(): Promise<void>;
}

export async function createRange(): Promise<Range> {
  // As a worker does by default: containers that were started ahead, which is one more thing to attack.
  const all = await createGradingHost(2);
  const sessions = await all.host.engine({ command: ['/bin/sleep', 'infinity'] });
  const targets = new Map<string, Promise<Target>>();
  const once = (name: string, make: () => Promise<Target>): Promise<Target> => {
    const made = targets.get(name) ?? make();
    targets.set(name, made);
    return made;
  };
  const isolated = (name: TargetName) => once(name, () => isolatedTarget(name, all.host.directory));
  return {
    isolated,
    inProcess: () => once('in process', () => inProcessTarget(all.host.directory)),
    async launch({ target, fools, recorded, script }) {
      const { folder, image } = await isolated(target);
      return inSession(all, sessions, image, script, async (id) => {
        const rules = rulesOf(folder.sample.environment.workdir, folder.sample.verification);
        const sealing = await all.seal({ id }, rules);
        const fooled = await gradeNaively(all.host.docker.getContainer(id), target, fools, recorded);
        return { fooled, sealing };
      });
    },
    async naive(target, script, belief) {
      const { image } = await isolated(target);
      return inSession(all, sessions, image, script, (id) =>
        gradeNaively(all.host.docker.getContainer(id), target, belief),
      );
    },
    grade: (target, { sealing }) => gradeSealed(all, target, sealing),
    async close() {
      expect(await all.close()).toEqual(nothingLeft);
    },
  };
}

async function inSession<T>(
  { host }: GradingHost,
  engine: Engine,
  image: string,
  script: string,
  use: (id: string) => Promise<T>,
): Promise<T> {
  const { id } = await engine.run(host.spec((await engine.image(image)).id, { limits }));
  try {
    const ran = await runAsAgent(host.docker.getContainer(id), ['sh', '-c', script]);
    // An attack that cannot even be made proves nothing.
    expect(ran).toEqual({ code: 0, stdout: '' });
    return await use(id);
  } finally {
    await engine.remove(id);
  }
}

async function gradeSealed(
  all: GradingHost,
  { folder, image }: Target,
  sealing: SealedSubmission | InvalidSealing,
): Promise<Judgement> {
  if (sealing.kind === 'invalid') return judgeInvalid(folder, sealing);
  const { digest } = sealing;
  const stored = await all.store.fetch(digest);
  const order = all.order({ folder, image }, { digest, path: stored?.file ?? '' });
  return (await all.grader.grade(order)).judgement;
}

/** What could not be sealed is never graded; the verdict is clear. */
function judgeInvalid({ sample }: SampleFolder, { finding }: InvalidSealing): Judgement {
  const { fail_to_pass, pass_to_pass, sentinel_fail, reward } = sample.verification;
  return judge({
    roles: { fail_to_pass, ...(pass_to_pass && { pass_to_pass }), ...(sentinel_fail && { sentinel_fail }) },
    reward: reward.from,
    findings: [{ kind: 'invalid', reason: finding.message }],
    prepare: undefined,
    runs: [],
    sampleProblem: undefined,
  });
}
