/** Whether this process, and no other, has the socket that answers at this address. */
export function isHeldBy(pid: number | undefined, host: string, port: number): Promise<boolean>;

/** Who holds the address, in words: `node (process 4711)`. Undefined: nobody does. */
export function holderOf(host: string, port: number): Promise<string | undefined>;
