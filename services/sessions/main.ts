import closeWithGrace from 'close-with-grace';
import { ConfigError } from '../shared/config.ts';
import { createLog } from '../shared/log.ts';
import { openTracing } from '../shared/tracing.ts';
import { readSessionsConfig } from './config.ts';
import { startSessions } from './service.ts';

try {
  const config = readSessionsConfig(process.env);
  const log = createLog('sessions', config.logLevel);
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
  process.stderr.write(`${misconfigured ? error.message : (error as Error).stack}\n`);
  process.exit(misconfigured ? ConfigError.exitCode : 1);
}
