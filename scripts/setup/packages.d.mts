interface LockedPackage {
  version?: string;
  resolved?: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

/** The packages of package-lock.json, by their path. */
export function lockedPackages(): Record<string, LockedPackage>;
/** Why `npm ci` would refuse these packages, in words. */
export function lockFileProblems(packages: Record<string, LockedPackage>): string[];
