import { parentPort } from 'node:worker_threads';
import { placeChild, removeCgroups } from './placement.ts';
import type { Answer, Order } from './placer.ts';

parentPort?.on('message', (order: Order) => {
  const answer: Answer =
    order.type === 'place'
      ? { id: order.id, pid: placeChild(order.container, order.directories, order.namespacePid) }
      : { id: order.id, removed: removeCgroups(order.directories) };
  parentPort?.postMessage(answer);
});
