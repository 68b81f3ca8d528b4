/** Whether this address can be listened on right now. */
export function isFree(host: string, port: number): Promise<boolean>;

/** A free port below those that the kernel gives to outgoing connections. */
export function freePort(host?: string): Promise<number>;

/** Waits until something accepts connections there; false when the time is up. */
export function accepts(host: string, port: number, ms: number, hopeless: () => boolean): Promise<boolean>;
