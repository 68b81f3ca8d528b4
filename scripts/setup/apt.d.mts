export interface InstallOptions {
  /** How long another apt is waited for, and how long between two attempts. */
  readonly patienceMs?: number;
  readonly pauseMs?: number;
  /** Held while packages are installed. */
  readonly lockFile?: string;
}

/** Installs Debian packages, or throws what to type where that is not ours to do. */
export function installPackages(packages: readonly string[], why: string, options?: InstallOptions): Promise<void>;
