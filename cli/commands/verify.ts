import { type Command, Option } from 'commander';
import { type AssuranceName, hasEnded, type VerificationInfo } from '../../clients/typescript/index.ts';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { exitCodes } from '../exit-code.ts';
import { listenForInterruption } from '../interruption.ts';
import { describeVerification, verificationJson } from '../verification-text.ts';

const help = `
Exit codes:
  0    the verdict is PASSED
  1    the verdict is another that is the submission's doing: FAILED, TAMPERED, TIMED_OUT, OUT_OF_MEMORY, INVALID_SUBMISSION
  2    wrong usage
  125  there is no verdict on the submission: Assay failed, or the sample is broken
  130  it was cancelled, as by Ctrl-C`;

interface VerifyOptions {
  watch?: boolean;
  force?: boolean;
  assurance?: AssuranceName;
  regrade?: boolean;
}

export function addVerifyCommand(program: Command, context: Context): void {
  const levels = ['ISOLATED', 'IN_PROCESS', 'FORK', 'SHARED'];
  const command = program
    .command('verify')
    .description('grade what a session has changed; the session goes on')
    .argument('<session>', 'a session made from a sample; with --regrade, a verification')
    .option('-w, --watch', 'also tell what happens until there is a verdict')
    .option('--force', 'grade even if the verdict on the same changes is known')
    .option('--regrade', 'grade the submission of an earlier verification again')
    .addOption(new Option('--assurance <level>', 'the weakest level that is good enough').choices(levels))
    .addHelpText('after', help)
    .action((id: string, options: VerifyOptions) => verify(context, id, options));
  withCommonOptions(command, context);
}

async function verify(context: Context, id: string, options: VerifyOptions): Promise<void> {
  const { verifications } = context.client();
  const interruption = listenForInterruption();
  try {
    const started = options.regrade
      ? await verifications.regrade(id)
      : await verifications.start(id, {
          force: options.force === true,
          ...(options.assurance === undefined ? {} : { requiredAssurance: options.assurance }),
        });
    interruption.onInterrupt(() => void verifications.cancel(started.id).catch(() => {}));
    const ended = hasEnded(started) ? started : await follow(context, started, options.watch === true);
    context.print(verificationJson(ended), () => describeVerification(ended));
    context.exitCode = exitCodeOf(ended);
  } finally {
    interruption.end();
  }
}

async function follow(context: Context, started: VerificationInfo, watch: boolean): Promise<VerificationInfo> {
  let last = started;
  const began = performance.now();
  for await (const info of context.client().verifications.watch(started.id)) {
    last = info;
    if (!watch) continue;
    const seconds = ((performance.now() - began) / 1_000).toFixed(1).padStart(6);
    const phase = info.phase === undefined || info.phase === info.state ? '' : ` (${info.phase})`;
    const why = info.message === '' ? '' : `: ${info.message}`;
    context.note(`${seconds} s  ${info.id} ${info.state}${phase}${why}`);
  }
  return last;
}

function exitCodeOf({ state, result }: VerificationInfo): number {
  if (state === 'CANCELLED') return exitCodes.interrupted;
  if (result === undefined || !result.trainable) return exitCodes.failed;
  return result.verdict === 'PASSED' ? 0 : 1;
}
