import { randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import { type OpenShellRequest, OpenShellRequestSchema } from '../../../gen/assay/v1/shell_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { Shell, type ShellHost } from './shell.ts';
import { type ShellSurroundings, shellFingerprintOf, shellSpecOf } from './shell-spec.ts';

/** What bounds the shells of a session. */
export interface ShellLimits {
  /** Open at one time. */
  readonly shells: number;
  /** Commands that wait for one shell. */
  readonly queued: number;
  /** Bytes of all commands that wait. */
  readonly queuedBytes: number;
}

/** The shells of one sandbox. */
export interface Shells {
  readonly size: number;
  /** Opens a shell, or finds the one that the same request opened; resolves when it takes commands. */
  open(request: OpenShellRequest): Promise<Shell>;
  find(id: string): Shell;
  /** The shell for one more command of this size; throws where it takes none. */
  seat(id: string, bytes: number): Shell;
  /** The shell that a journal speaks of, which may be closed. */
  known(id: string): Shell | undefined;
  /** Oldest first, from after the given number. */
  list(after: bigint, limit: number): Shell[];
  /** Takes up a record of the journal; returns the shell it speaks of, if it is one's. */
  replay(record: JournalRecord): Shell | undefined;
  connected(): void;
  synced(): void;
  /** The sandbox is gone, or this process is about to end. */
  lose(error: DomainError): void;
}

export interface ShellsHost extends Omit<ShellHost, 'neverOpened'> {
  sessionId(): string;
  /** The next place in the order of acceptance; throws where the session remembers no more. */
  accept(): bigint;
}

export function createShells(host: ShellsHost, around: ShellSurroundings, limits: ShellLimits): Shells {
  const byId = new Map<string, Shell>();
  const byNumber = new Map<bigint, Shell>();
  const shellHost: ShellHost = { ...host, neverOpened: forget };

  function add(number: bigint, request: OpenShellRequest, fingerprint: string, createdMs: number): Shell {
    const shell = new Shell(shellSpecOf(number, request, fingerprint, createdMs, around), shellHost);
    byId.set(shell.spec.id, shell);
    byNumber.set(number, shell);
    return shell;
  }

  function forget(shell: Shell): void {
    byNumber.delete(shell.spec.number);
    if (byId.get(shell.spec.id) === shell) byId.delete(shell.spec.id);
  }

  /** The shell that a request with the same id made before. */
  function earlier(request: OpenShellRequest, fingerprint: string): Shell | undefined {
    const named = byId.get(request.shellId);
    if (named === undefined) return undefined;
    if (named.spec.fingerprint === fingerprint) return named;
    const message = `shell_id ${request.shellId} was used for another shell; choose a new one`;
    throw new DomainError('SHELL_ID_REUSED', message, { shell_id: request.shellId });
  }

  function openNew(request: OpenShellRequest, fingerprint: string): Shell {
    let open = 0;
    for (const shell of byNumber.values()) if (!shell.closed) open++;
    if (open >= limits.shells) {
      const message = `the session has ${open} open shells, the limit is ${limits.shells} (ASSAY_SHELLS_PER_SESSION); close one first`;
      throw new DomainError('SHELL_QUOTA', message, { limit: String(limits.shells) });
    }
    const number = host.accept();
    const createdMs = Date.now();
    const named = request.shellId === '' ? { ...request, shellId: `shl_${randomBytes(12).toString('hex')}` } : request;
    const value = { request: create(OpenShellRequestSchema, named), time: timestampFromMs(createdMs), fingerprint };
    host.journal.append(create(JournalRecordSchema, { number, record: { case: 'shellAccepted', value } }));
    const shell = add(number, named, fingerprint, createdMs);
    shell.open();
    return shell;
  }

  function find(id: string): Shell {
    const shell = byId.get(id);
    if (shell !== undefined) return shell;
    const message = `no shell ${id} in session ${host.sessionId()}; OpenShell opens one`;
    throw new DomainError('SHELL_NOT_FOUND', message, { session_id: host.sessionId(), shell_id: id });
  }

  function refuseOverLimits({ queued, spec }: Shell, bytes: number): void {
    if (queued >= limits.queued) {
      const message = `${queued} commands wait for shell ${spec.id}, the limit is ${limits.queued} (ASSAY_QUEUED_PER_SHELL); let some end first`;
      throw new DomainError('SHELL_QUEUE_FULL', message, { limit: String(limits.queued) });
    }
    let waiting = bytes;
    for (const shell of byNumber.values()) waiting += shell.queuedBytes;
    if (waiting <= limits.queuedBytes) return;
    const message = `the commands that wait for shells would have ${waiting} bytes, the limit is ${limits.queuedBytes} (ASSAY_QUEUED_BYTES_PER_SESSION); let some end first`;
    throw new DomainError('SHELL_QUEUE_FULL', message, { limit: String(limits.queuedBytes) });
  }

  return {
    get size() {
      return byNumber.size;
    },
    async open(request) {
      const fingerprint = shellFingerprintOf(request);
      const shell = earlier(request, fingerprint) ?? openNew(request, fingerprint);
      if (!shell.closing) await shell.whenOpen();
      return shell;
    },
    find,
    known: (id) => byId.get(id),
    seat(id, bytes) {
      const shell = find(id);
      if (shell.closing) throw new DomainError('SHELL_CLOSED', `shell ${id} is closed; open another`, { shell_id: id });
      if (!shell.idle) refuseOverLimits(shell, bytes);
      return shell;
    },
    list(after, limit) {
      const found: Shell[] = [];
      for (const shell of byNumber.values()) {
        if (shell.spec.number > after && found.length < limit) found.push(shell);
      }
      return found;
    },
    replay({ number, record }) {
      if (record.case === 'shellAccepted') {
        const { request, time, fingerprint } = record.value;
        if (request === undefined) return undefined;
        return add(number, request, fingerprint, time === undefined ? 0 : timestampMs(time));
      }
      const shell = byNumber.get(number);
      shell?.restore(record);
      if (shell !== undefined && record.case === 'shellClosed' && record.value.neverOpened) forget(shell);
      return shell;
    },
    connected() {
      for (const shell of byNumber.values()) shell.connected();
    },
    synced() {
      for (const shell of byNumber.values()) shell.synced();
    },
    lose(error) {
      for (const shell of byNumber.values()) shell.lose(error);
    },
  };
}
