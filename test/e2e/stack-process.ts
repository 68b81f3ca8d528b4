import { startStack } from '../../scripts/stack.mjs';
import type { OtherStackOrder } from './other-user.ts';

/** A whole stack in a process of its own, and so as the user of that process. It stops when its standard input ends. */
const stack = await startStack(JSON.parse(process.argv[2] ?? '') as OtherStackOrder);
process.stdout.write(`${JSON.stringify({ endpoint: stack.endpoint, key: stack.key, workerPid: stack.pids.worker })}\n`);
for await (const _ of process.stdin);
await stack.stop();
process.exit(0);
