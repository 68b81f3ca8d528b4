/** A current nats-server, built from its Go module unless it is there. Only the tests need it. */
export function ensureCurrentBroker(): Promise<string>;
