import closeWithGrace from 'close-with-grace';
import { ConfigError } from '../shared/config.ts';
import { createLog, warnOperator } from '../shared/log.ts';
import { openTracing } from '../shared/tracing.ts';
import { unknownSettings } from '../unknown-settings.ts';
import { readSessionsConfig } from './config.ts';
import { startSessions } from './service.ts';

const unknown = unknownSettings(process.env);
try {
  const config = readSessionsConfig(process.env);
  const log = createLog('sessions', config.logLevel);
  for (const sentence of unknown) warnOperator(log, sentence);
  const tracing = await openTracing('assay-sessions', process.env, log);
  const service = await startSessions(config, log, undefined, tracing);
  log.info({ host: config.listen.host, port: service.port }, 'serving');
  closeWithGrace({ delay: 15_000, logger: false }, async ({ signal, err }) => {
    if (err) log.fatal({ err }, 'a failure that nobody caught');
    log.info({ signal }, 'stopping');
    await service.close();
    await tracing?.close();
    log.info('stopped');
  });
  void service.broken.then((error) => {
    if (error === undefined) return;
    log.fatal({ err: error }, 'the connection to the broker is lost for good');
    process.exit(1);
  });
} catch (error) {
  const misconfigured = error instanceof ConfigError;
  // One that is required may be missing because it was misspelt.
  const said = misconfigured
    ? [error.message, ...unknown.map((sentence) => `  ${sentence}`)]
    : [(error as Error).stack];
  process.stderr.write(`${said.join('\n')}\n`);
  process.exit(misconfigured ? ConfigError.exitCode : 1);
}
