import type { Execution, Session } from '../../clients/typescript/index.ts';

/** Resolves when an execution of the session has printed this text on either stream; whoever follows it goes on. */
export async function printed(session: Session, execution: Execution, wanted: string): Promise<void> {
  await execution.started;
  let seen = '';
  for await (const event of session.attach(execution.id)) {
    if (event.type === 'stdout' || event.type === 'stderr') seen += Buffer.from(event.data).toString();
    if (seen.includes(wanted)) return;
  }
  throw new Error(`it ended without printing ${wanted}: ${seen}`);
}
