/** The hosts of the package registries that this machine is configured for. */
export function registryHosts(dataDir: string): Promise<string[]>;
/** The hosts of all http and https URLs in a text. */
export function hostsOf(text: string): string[];
