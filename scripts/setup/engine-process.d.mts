/** The files of one engine: a machine may run several. */
export interface EnginePlace {
  readonly socket: string;
  /** Where set-up writes which process it started. */
  readonly record: string;
  readonly pidFile: string;
  /** The state directory of the engine's own containerd. */
  readonly containerdState: string;
  /** The engine's settings file, which may be missing. */
  readonly settings: string;
  /** The options of each attempt to start it. */
  readonly attempts: readonly (readonly string[])[];
}
interface EngineApi {
  answers(): Promise<boolean>;
}

export function startEngine(api: EngineApi, dataDir: string, place?: EnginePlace): Promise<void>;
export function startedEngine(place?: EnginePlace): { pid: number; name: string } | undefined;
export function stopEngine(place?: EnginePlace): Promise<{ ended: { pid: number; name: string }[]; mounted: string[] }>;
