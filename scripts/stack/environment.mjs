import { dirname, join } from 'node:path';

/** Our own environment without what belongs to npm, to the test runner or to a client. */
export function inheritedEnvironment() {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|VITEST|NODE_OPTIONS$|NODE_V8_COVERAGE$|ASSAY_(API_KEY|ENDPOINT|DATA_DIR)$|NATS_)/.test(name),
  );
  return Object.fromEntries(kept);
}

/** The settings of the two services that set-up knows. */
export function serviceEnvironments({ dataDir, broker, setup, listen, onStop, installation, files }) {
  const shared = {
    ...inheritedEnvironment(),
    ASSAY_NATS_URL: broker.natsUrl,
    ASSAY_NATS_AUTH_FILE: broker.authFile,
    ASSAY_WORKER_TOKEN_FILE: files.workerToken,
    ASSAY_LOG_LEVEL: process.env.ASSAY_LOG_LEVEL || 'info',
    // What is known by then need not be stripped of its types again: a third of the time of a start, and 20 MiB.
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE || join(setup.dataDir, 'compiled'),
  };
  const worker = {
    ...shared,
    ASSAY_DATA_DIR: `${dataDir}/worker`,
    ASSAY_DOCKER_SOCKET: setup.dockerSocket,
    ASSAY_BASE_IMAGE: setup.baseImage,
    ASSAY_GUEST_PATH: setup.guestPath,
    ASSAY_ISOLATED_PATH: setup.isolatedPath,
    ASSAY_NETDOOR_PATH: join(dirname(setup.guestPath), 'netdoor'),
    ASSAY_LAUNCHER_PATH: join(dirname(setup.guestPath), 'launcher'),
    ASSAY_IDMOUNT_PATH: join(dirname(setup.guestPath), 'idmount'),
    ASSAY_WORKER_LISTEN: '127.0.0.1:0',
    ASSAY_ON_STOP: onStop,
    ASSAY_INSTALLATION: installation,
  };
  const sessions = { ...shared, ASSAY_LISTEN: listen, ASSAY_BOOTSTRAP_KEY_FILE: files.key };
  return { worker, sessions };
}
