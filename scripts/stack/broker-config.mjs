import { join } from 'node:path';
import { SetupFailure } from '../setup/failure.mjs';
import { makePrivateDirectory } from '../setup/paths.mjs';
import { keptSecret, randomName, writePrivateFile } from './secrets.mjs';

/** The stream whose messages the read-only user may fetch by their sequence number. */
export const eventStream = 'ASSAY_EVENTS';

/** Writes nats-server's configuration and the credentials of its three users. Returns where they are. */
export function configureBroker(dataDir, port) {
  const directory = makePrivateDirectory(join(dataDir, 'nats'));
  const files = {
    config: join(directory, 'nats.conf'),
    authFile: join(directory, 'auth.json'),
    eventsAuthFile: join(directory, 'events-auth.json'),
    systemAuthFile: join(directory, 'system-auth.json'),
    store: join(directory, 'store'),
  };
  const owner = keptCredentials(files.authFile, 'assay');
  const reader = keptCredentials(files.eventsAuthFile, 'events');
  const system = keptCredentials(files.systemAuthFile, 'system');
  writePrivateFile(files.config, configuration({ port, store: files.store, owner, reader, system }));
  return files;
}

function keptCredentials(file, user) {
  return JSON.parse(keptSecret(file, () => JSON.stringify({ user, password: randomName(40) })));
}

/**
 * The reader has an account of its own. In the services' account, permissions alone would not make it read-only: the
 * reply address of a request and the delivery address of a consumer are not checked, so that either could be made to
 * write over a record. It gets the events as they happen, and older ones one by one from the stream.
 *
 * The system user is the supervisor's, which asks for the broker's health: a monitoring port would ask for no password.
 */
function configuration({ port, store, owner, reader, system }) {
  const direct = `$JS.API.DIRECT.GET.${eventStream}`;
  return `# Written at every start.
listen: "127.0.0.1:${port}"
max_payload: 1MB
max_connections: 1024
jetstream { store_dir: ${quoted(store)}, max_memory_store: 64MB, max_file_store: 16GB }
system_account: SYSTEM
accounts {
  SYSTEM { users: [{ user: ${quoted(system.user)}, password: ${quoted(system.password)} }] }
  ASSAY {
    jetstream: enabled
    users: [{ user: ${quoted(owner.user)}, password: ${quoted(owner.password)} }]
    exports: [{ stream: "assay.events.>", accounts: [EVENTS] }, { service: "${direct}", accounts: [EVENTS] }]
  }
  EVENTS {
    users: [{
      user: ${quoted(reader.user)}, password: ${quoted(reader.password)}
      permissions: { subscribe: ["assay.events.>", "_INBOX.>"], publish: ["${direct}"] }
    }]
    imports: [
      { stream: { account: ASSAY, subject: "assay.events.>" } }
      { service: { account: ASSAY, subject: "${direct}" } }
    ]
  }
}
`;
}

const quoted = (text) => JSON.stringify(text);

/** Credentials of a broker that the user runs travel in a file as well, never in an address that gets logged. */
export function foreignBroker(dataDir, address) {
  const url = new URL(address);
  const auth = { user: decodeURIComponent(url.username), password: decodeURIComponent(url.password) };
  url.username = '';
  url.password = '';
  const natsUrl = url.href.replace(/\/$/, '');
  if (!auth.user || !auth.password) {
    throw new SetupFailure(
      `NATS_URL names ${natsUrl} without user and password; expected a broker that asks for them`,
      'export NATS_URL=nats://user:password@host:4222',
    );
  }
  const authFile = join(makePrivateDirectory(join(dataDir, 'nats')), 'foreign-auth.json');
  writePrivateFile(authFile, `${JSON.stringify(auth)}\n`);
  return { natsUrl, authFile };
}
