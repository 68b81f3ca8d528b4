import { createInterface } from 'node:readline';
import { createTarget, greedyRows } from './greedy-row.ts';

/** What a greedy process did until it was stopped. */
export interface GreedyCount {
  done: number;
  /** Steps that failed: refused by a limit, or broken off. */
  refused: number;
  /** The words of one of them. */
  refusal: string;
}

/** Steps that take longer than this are under way by then. */
const underWayMs = 5_000;

/**
 * Does one greedy thing in a process of its own: says `ready` when all is prepared, begins when it reads a line, says
 * `going` once a step has ended or all are under way, and stops when its input ends.
 */
const [name = '', endpoint = '', key = ''] = process.argv.slice(2);
const row = greedyRows[name];
if (row === undefined) throw new Error(`no row "${name}"; there are ${Object.keys(greedyRows).join(', ')}`);
const step = await row.prepare(createTarget(endpoint, key));
const count: GreedyCount = { done: 0, refused: 0, refusal: '' };
const say = (line: string) => process.stdout.write(`${line}\n`);

let told = false;
function sayGoing(): void {
  if (!told) say('going');
  told = true;
}

async function lane(index: number): Promise<void> {
  for (;;) {
    try {
      await step(index);
      count.done++;
      sayGoing();
    } catch (error) {
      count.refused++;
      sayGoing();
      count.refusal = String(error);
      // A refusal may come at once: the other lanes and the input need a turn too.
      await new Promise(setImmediate);
    }
  }
}

say('ready');
const orders = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
await orders.next();
for (let index = 0; index < row.lanes; index++) void lane(index);
setTimeout(sayGoing, underWayMs);
await orders.next();
say(JSON.stringify(count));
process.exit(0);
