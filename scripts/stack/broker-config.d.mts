/** Where a broker's configuration, credentials and records are. */
export interface BrokerFiles {
  readonly config: string;
  readonly authFile: string;
  readonly eventsAuthFile: string;
  readonly systemAuthFile: string;
  readonly store: string;
}

/** Writes nats-server's configuration and the credentials of its users. */
export function configureBroker(dataDir: string, port: number): BrokerFiles;
