/** The few calls of the Docker Engine API that set-up needs. */
export function createEngineApi(socketPath: string): {
  answers(idleMs?: number): Promise<boolean>;
  get(path: string): Promise<unknown>;
};
