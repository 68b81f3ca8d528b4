import { parentPort } from 'node:worker_threads';
import { placeChild, removeCgroups } from './placement.ts';
import type { Answer, Order } from './placer.ts';

parentPort?.on('message', (order: Order) => {
  const done =
    order.type === 'place'
      ? placeChild(order.container, order.directories, order.namespacePid)
      : removeCgroups(order.directories);
  parentPort?.postMessage({ id: order.id, done } satisfies Answer);
});
