import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import type { ExecutionLine } from '../../services/sessions/execution/execution-stream.ts';
import { createUnreadBudgets, type UnreadBytes } from '../../services/sessions/execution/unread-budget.ts';
import type { GrpcCall } from '../../services/sessions/relay/grpc-call.ts';
import { relay } from '../../services/sessions/relay/relay.ts';
import type { LineEvents } from '../../services/sessions/worker/worker-line.ts';

const mebibyte = 1_048_576;
const piece = Buffer.alloc(8_192);

/** A line that brings without end, to a client that reads nothing until it is told to. */
function unreadStream(unread: UnreadBytes) {
  const stream = Object.assign(new EventEmitter(), { destroyed: false });
  const waiting: (() => void)[] = [];
  const call = {
    ...{ stream, over: false, onOver: () => () => {}, begin() {} },
    write: (_bytes: Uint8Array, sent: () => void) => void waiting.push(sent),
  } as unknown as GrpcCall;
  let events = {} as LineEvents;
  let resumed = 0;
  const line = {
    read(given: LineEvents) {
      events = given;
    },
    resume() {
      resumed += 1;
    },
    close() {},
  };
  const opened = { line, unread } as unknown as ExecutionLine;
  void relay(call, opened);
  return {
    get resumed() {
      return resumed;
    },
    readLimit: () => events.readLimit(),
    /** Brings what is wanted. Returns how much that was. */
    fill(): number {
      let bytes = 0;
      for (let more = true; more; bytes += piece.length) more = events.frames(piece, () => {});
      return bytes;
    },
    readAll(): void {
      for (const sent of waiting.splice(0)) sent();
    },
    close(): void {
      stream.destroyed = true;
      stream.emit('close');
    },
  };
}

test('a thousand unread streams of one project hold little more than its budget, and others hold what they may', () => {
  const budgets = createUnreadBudgets();
  const greedy = Array.from({ length: 1_000 }, () => unreadStream(budgets.of('greedy')));
  const held = greedy.reduce((sum, stream) => sum + stream.fill(), 0);
  expect(held).toBeLessThan(128 * mebibyte);
  expect(greedy.at(-1)?.readLimit()).toBeLessThan(262_144);
  expect(unreadStream(budgets.of('modest')).fill()).toBe(mebibyte);
});

test('a stream that is over the budget goes on when its client reads, and has its whole share when the others are gone', () => {
  const unread = createUnreadBudgets().of('greedy');
  const others = Array.from({ length: 100 }, () => unreadStream(unread));
  for (const stream of others) stream.fill();
  const late = unreadStream(unread);
  expect(late.fill()).toBe(65_536);
  late.readAll();
  expect(late.resumed).toBe(1);
  for (const stream of others) stream.close();
  expect(late.fill()).toBe(mebibyte);
});
