import { writeSync } from 'node:fs';
import { type Logger, pino } from 'pino';

export type { Logger };

/** Lines that wait while the log cannot be written; what comes after is dropped and counted. */
const waitingBytes = 1_048_576;
const retryMs = 1_000;

/** For what an operator at a terminal must see too: a warning in the log, and a line on stderr. */
export function warnOperator(log: Logger, message: string): void {
  log.warn(message);
  try {
    writeSync(process.stderr.fd, `${message}\n`);
  } catch {
    // A full disk or a reader that went: the log has it.
  }
}

/** Structured logs on stdout. Whatever could hold a secret is blanked by name, wherever it stands. */
export function createLog(service: string, level: string): Logger {
  const secrets = ['authorization', 'secret', 'password', 'token', 'key', 'env'];
  const { destination, onLoss } = createLogDestination();
  const log = pino(
    {
      level,
      base: { service },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: secrets.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[secret]' },
    },
    destination,
  );
  onLoss((lines, reason) => log.error({ lines, reason }, 'log lines were dropped: the log could not be written'));
  return log;
}

type LossListener = (lines: number, reason: string) => void;

/** Standard output, of which a failed write never ends the process: a full disk is no reason to stop serving. */
function createLogDestination() {
  const destination = pino.destination({ dest: 1, sync: true, maxLength: waitingBytes });
  let dropped = 0;
  let reason = '';
  let retry: NodeJS.Timeout | undefined;
  let tellLoss: LossListener = () => {};
  // pino's own listener throws whatever is not a broken pipe.
  destination.removeAllListeners('error');
  destination.on('error', (error: Error) => {
    reason = error.message;
    // An empty write makes the destination try again what waits.
    retry ??= setTimeout(() => {
      retry = undefined;
      destination.write('');
    }, retryMs).unref();
  });
  destination.on('drop', () => {
    dropped += 1;
  });
  destination.on('write', () => {
    if (dropped === 0) return;
    const lines = dropped;
    dropped = 0;
    setImmediate(() => tellLoss(lines, reason));
  });
  return {
    destination,
    onLoss(listener: LossListener) {
      tellLoss = listener;
    },
  };
}
