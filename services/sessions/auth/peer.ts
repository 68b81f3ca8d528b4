/** The other end of a connection. */
export interface Peer {
  /** Its IP address. Behind a proxy all callers share one. */
  readonly address: string;
  /** Notes that the connection has brought a call with a valid key. Throws CONNECTION_QUOTA where the project of the key has too many. */
  prove(project: string): void;
}
