/** Where set-up found or put everything. */
export interface Setup {
  dataDir: string;
  /** The Node that runs the services: 24 or newer. */
  nodePath: string;
  /** The Docker engine's Unix socket. */
  dockerSocket: string;
  /** The nats-server program; undefined where NATS_URL names a broker. */
  natsServer: string | undefined;
  /** Name and tag of the base image. */
  baseImage: string;
  /** The guest program, static, built from guest/. */
  guestPath: string;
  /** The program that runs a submission's programs for its tests, static, built from runner/. */
  isolatedPath: string;
}

export const parts: readonly string[];
export function setup(options?: { only?: string }): Promise<Setup>;
