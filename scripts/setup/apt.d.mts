/** Installs Debian packages, or throws what to type where that is not ours to do. */
export function installPackages(packages: readonly string[], why: string): Promise<void>;
