import { create } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import { ListShellsRequestSchema, ShellService } from '../../../gen/assay/v1/shell_pb.js';
import { requireCaller } from '../auth/caller.ts';
import { checkSessionId } from '../validation/identifier.ts';
import type { PageTokens } from '../validation/page-token.ts';
import { checkPageSize } from '../validation/session-request.ts';
import { checkOpenShellRequest, checkShellName } from '../validation/shell-request.ts';
import { createForward, type ForwardDeps } from './forward.ts';

export interface ShellServiceDeps extends ForwardDeps {
  readonly tokens: PageTokens;
}

export function createShellService(deps: ShellServiceDeps): ServiceImpl<typeof ShellService> {
  const { tokens } = deps;
  const { openShell, getShell, listShells, closeShell } = ShellService.method;
  const forward = createForward(deps);
  return {
    openShell(request, context) {
      checkOpenShellRequest(request);
      return forward(context, openShell, request);
    },
    getShell(request, context) {
      checkShellName(request);
      return forward(context, getShell, request);
    },
    async listShells(request, context) {
      checkSessionId(request.sessionId);
      const pageSize = checkPageSize(request.pageSize);
      const query = `shells ${requireCaller(context).project} ${request.sessionId}`;
      const pageToken = request.pageToken === '' ? '' : tokens.open(query, request.pageToken);
      const inner = create(ListShellsRequestSchema, { sessionId: request.sessionId, pageSize, pageToken });
      const page = await forward(context, listShells, inner);
      const next = page.nextPageToken === '' ? '' : tokens.make(query, page.nextPageToken);
      return { shells: page.shells, nextPageToken: next };
    },
    closeShell(request, context) {
      checkShellName(request);
      return forward(context, closeShell, request);
    },
  };
}
