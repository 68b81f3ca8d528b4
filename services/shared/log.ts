import { type Logger, pino } from 'pino';

export type { Logger };

/** Structured logs on stdout. Whatever could hold a secret is blanked by name, wherever it stands. */
export function createLog(service: string, level: string): Logger {
  const secrets = ['authorization', 'secret', 'password', 'token', 'key', 'env'];
  return pino({
    level,
    base: { service },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: secrets.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[secret]' },
  });
}
