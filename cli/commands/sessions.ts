import type { Command } from 'commander';
import { AssayError, type SessionInfo, type SessionStateName } from '../../clients/typescript/index.ts';
import { type SessionOptions, toCreateOptions, withCommonOptions, withSessionOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { collectAssignment, parseDuration } from '../option-value.ts';
import { buildFirst } from '../sample-build.ts';
import { requireSampleName, writeSampleName } from '../sample-name.ts';
import { renderFields, renderPairs, renderSize, renderSpan, renderTable } from '../table.ts';

const liveStates: readonly SessionStateName[] = ['CREATING', 'READY', 'CLOSING', 'UNREACHABLE'];

export function addSessionsCommand(program: Command, context: Context): void {
  const sessions = program.command('sessions').description('see, make and close sessions');
  const list = sessions
    .command('ls')
    .description('list live sessions, newest first')
    .option('-a, --all', 'also those that have ended')
    .option('--label <name=value>', 'only those with this label; repeatable', collectAssignment)
    .action((options: ListOptions) => listSessions(context, options));
  const get = sessions
    .command('get')
    .description('show one session')
    .argument('<session>')
    .action((id: string) => getSession(context, id));
  const create = sessions
    .command('create')
    .description('make a session and print its id')
    .option('--sample <dataset/sample>', 'from this sample, such as examples/hello-fix')
    .option('-e, --env <name=value>', 'a variable of every command; repeatable', collectAssignment)
    .option('--idle-timeout <time>', 'close it after this long without a command', parseDuration)
    .action((options: CreateOptions) => createSession(context, options));
  const close = sessions
    .command('close')
    .description('close sessions: every process is killed, everything is freed')
    .argument('<session...>')
    .action((ids: string[]) => closeSessions(context, ids));
  for (const command of [list, get, withSessionOptions(create), close]) withCommonOptions(command, context);
}

interface ListOptions {
  all?: boolean;
  label?: Record<string, string>;
}

async function listSessions(context: Context, { all, label }: ListOptions): Promise<void> {
  const query = { ...(all ? {} : { states: liveStates }), ...(label === undefined ? {} : { labels: label }) };
  const sessions = await Array.fromAsync(context.client().sessions.list(query));
  const now = Date.now();
  context.print(sessions, () =>
    renderTable(
      ['SESSION', 'STATE', 'AGE', 'EXPIRES', 'FROM', 'LABELS'],
      sessions.map((info) => [
        info.id,
        info.paused ? `${info.state} (paused)` : info.state,
        info.createTime === undefined ? '' : renderSpan(now - info.createTime.getTime()),
        info.endTime !== undefined || info.expireTime === undefined ? '-' : renderSpan(info.expireTime.getTime() - now),
        originOf(info),
        renderPairs(info.labels),
      ]),
    ),
  );
}

async function getSession(context: Context, id: string): Promise<void> {
  const { info } = await context.client().sessions.get(id);
  const task = info.sample === undefined ? '' : `\n\n${info.sample.instruction.trim()}`;
  context.print(info, () => `${describe(info)}${task}`);
}

function originOf({ image, sample }: SessionInfo): string {
  return sample === undefined ? image || '(base)' : writeSampleName(sample);
}

function describe(info: SessionInfo): string {
  const { limits } = info;
  return renderFields([
    ['session', info.id],
    ['state', info.paused ? `${info.state} (paused: ${info.pauseReason})` : info.state],
    ['reason', info.errorReason || info.endReason],
    ['message', info.message],
    info.sample === undefined ? ['image', info.image || '(base)'] : ['sample', originOf(info)],
    ['labels', renderPairs(info.labels)],
    ['cpus', limits.cpus?.toString()],
    ['memory', limits.memoryBytes === undefined ? undefined : renderSize(limits.memoryBytes)],
    ['disk', limits.diskBytes === undefined ? undefined : renderSize(limits.diskBytes)],
    ['pids', limits.pids?.toString()],
    ['created', info.createTime?.toISOString()],
    ['expires', info.endTime === undefined ? info.expireTime?.toISOString() : undefined],
    ['ended', info.endTime?.toISOString()],
    ['idle timeout', info.idleTimeoutMs === undefined ? undefined : renderSpan(info.idleTimeoutMs)],
    ['network', [info.network.mode.toLowerCase(), ...(info.network.allow ?? [])].join(' ')],
    ['worker', info.workerId],
    ['started', info.warm ? 'warm' : 'cold'],
    ['forked from', info.forkedFrom],
  ]);
}

interface CreateOptions extends SessionOptions {
  sample?: string;
  env?: Record<string, string>;
  idleTimeout?: number;
}

async function createSession(context: Context, options: CreateOptions): Promise<void> {
  const sample =
    options.sample === undefined ? undefined : requireSampleName(options.sample, 'assay sessions create --sample');
  if (sample !== undefined) await buildFirst(context, sample);
  const { info } = await context.client().sessions.create({
    ...(sample && { sample }),
    ...toCreateOptions(options),
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.idleTimeout === undefined ? {} : { idleTimeoutMs: options.idleTimeout }),
  });
  context.print(info, () => info.id);
}

/** One that cannot be closed is told at the end; the others are closed all the same. */
async function closeSessions(context: Context, ids: string[]): Promise<void> {
  const closed: SessionInfo[] = [];
  let failure: unknown;
  for (const id of ids) {
    try {
      const session = await context.client().sessions.get(id);
      closed.push(await session.close());
    } catch (error) {
      failure ??= error;
      if (!(error instanceof AssayError) || error.transient) break;
    }
  }
  if (closed.length > 0) context.print(closed, () => closed.map((info) => `${info.id} ${info.state}`).join('\n'));
  if (failure !== undefined) throw failure;
}
