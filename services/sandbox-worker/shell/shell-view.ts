import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { ShellSchema, ShellState, type Shell as ShellView } from '../../../gen/assay/v1/shell_pb.js';
import type { Shell } from './shell.ts';

/** A shell as clients see it. */
export function shellViewOf(sessionId: string, shell: Shell): ShellView {
  const { spec } = shell;
  return create(ShellSchema, {
    sessionId,
    shellId: spec.id,
    state: shell.closing ? ShellState.CLOSED : ShellState.OPEN,
    program: [...spec.program],
    createTime: timestampFromMs(spec.createdMs),
    openCount: shell.opened,
    runningExecutionId: shell.current?.id ?? '',
    queuedExecutionCount: shell.queued,
    workingDirectory: spec.workingDirectory,
  });
}
