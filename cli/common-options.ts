import { type Command, Option } from 'commander';
import type { Network, NetworkModeName, ResourceLimits } from '../clients/typescript/index.ts';
import type { Context, OutputFormat } from './context.ts';
import { usageFailure } from './failure.ts';
import { collect, collectAssignment, parseCount, parseCpus, parseDuration, parseSize } from './option-value.ts';

interface CommonOptions {
  output: OutputFormat;
  endpoint?: string;
}

/** Adds what every command takes, and hands it to the context before the command acts. */
export function withCommonOptions(command: Command, context: Context): Command {
  return command
    .addOption(new Option('-o, --output <format>', 'what to print').choices(['text', 'json']).default('text'))
    .option('--endpoint <url>', 'the server (default: $ASSAY_ENDPOINT, else http://127.0.0.1:7070)')
    .hook('preAction', (_, acting) => {
      const { output, endpoint } = acting.opts<CommonOptions>();
      context.format = output;
      context.endpoint = endpoint;
    });
}

export interface SessionOptions {
  image?: string;
  memory?: number;
  cpus?: number;
  disk?: number;
  pids?: number;
  ttl?: number;
  label?: Record<string, string>;
  network?: string;
  allow?: string[];
}

export function withSessionOptions(command: Command): Command {
  return withLimitOptions(
    command.option('--image <image>', "an image that the operator allows (default: the server's base image)"),
  );
}

/** What may also differ in a session that is made from another. */
export function withLimitOptions(command: Command): Command {
  return command
    .option('--memory <size>', 'memory, such as 512m', parseSize)
    .option('--cpus <number>', 'CPU cores, such as 1.5', parseCpus)
    .option('--disk <size>', 'disk, such as 2g', parseSize)
    .option('--pids <number>', 'processes at one time', parseCount)
    .option('--ttl <time>', 'how long the session lives, such as 10m', parseDuration)
    .option('--label <name=value>', 'a label; repeatable', collectAssignment)
    .addOption(
      new Option('--network <mode>', 'what it can reach (default: none; a fork: what its source can)').choices([
        'none',
        'egress',
        'full',
      ]),
    )
    .option('--allow <host>', 'with egress: a host it may reach, such as *.example.org; repeatable', collect);
}

export function toCreateOptions(options: SessionOptions) {
  const limits: ResourceLimits = {
    ...(options.memory === undefined ? {} : { memoryBytes: options.memory }),
    ...(options.cpus === undefined ? {} : { cpus: options.cpus }),
    ...(options.disk === undefined ? {} : { diskBytes: options.disk }),
    ...(options.pids === undefined ? {} : { pids: options.pids }),
  };
  return {
    limits,
    ...(options.image === undefined ? {} : { image: options.image }),
    ...(options.ttl === undefined ? {} : { ttlMs: options.ttl }),
    ...(options.label === undefined ? {} : { labels: options.label }),
    ...toNetwork(options),
  };
}

/** --allow alone means egress. */
function toNetwork({ network, allow }: SessionOptions): { network?: Network } {
  if (network === undefined && allow === undefined) return {};
  const mode = (network ?? 'egress').toUpperCase() as NetworkModeName;
  if (mode !== 'EGRESS' && allow !== undefined)
    throw usageFailure(
      `found --allow with --network ${network}`,
      'assay run --network egress --allow example.org -- …',
    );
  return { network: { mode, ...(allow === undefined ? {} : { allow }) } };
}

export interface CommandOptions {
  command?: string;
  env?: Record<string, string>;
  cwd?: string;
  timeout?: number;
  interactive?: boolean;
  /** The shell to run in. */
  shell?: string;
  tty?: boolean;
  /** False with --no-stdin. */
  stdin: boolean;
}

export function withCommandOptions(command: Command): Command {
  return command
    .option('-c, --command <text>', 'shell text to run, instead of arguments')
    .option('-e, --env <name=value>', 'a variable; repeatable', collectAssignment)
    .option('-w, --cwd <path>', 'the working directory')
    .option('-t, --timeout <time>', 'end the command after this long, such as 30s', parseDuration)
    .option('-i, --interactive', 'pass stdin on even if it is a terminal')
    .option('--tty', 'run it on a terminal, lent from this one: every key goes to the command')
    .option('--no-stdin', 'do not read stdin');
}

/** Several arguments are a program and its arguments; one argument, or -c, is shell text. */
export function toProgram(args: readonly string[], text: string | undefined): string | readonly string[] {
  if (text !== undefined && args.length > 0)
    throw usageFailure('found both -c and a command', "assay run -c 'echo hi'");
  const program = text ?? (args.length === 1 ? args[0] : args);
  if (program === undefined || program.length === 0) {
    throw usageFailure('found no command to run', "assay run -- ls -l, or assay run -c 'echo hi | wc -c'");
  }
  return program;
}

/** A shell runs text, so several arguments would have to be quoted by guessing. */
export function toShellText(args: readonly string[], text: string | undefined): string {
  const program = toProgram(args, text);
  if (typeof program === 'string') return program;
  throw usageFailure(
    `found ${program.length} arguments; a shell runs one text`,
    "assay exec <session> --shell <id> -c 'cd /tmp && ls'",
  );
}
