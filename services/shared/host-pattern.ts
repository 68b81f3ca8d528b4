/** Hosts that may be reached: one name, every name below one, or (operators only) all; on some ports. */
export interface HostPattern {
  /** Normalised. Empty: every host. */
  readonly host: string;
  /** The names below `host`, and not `host` itself. */
  readonly below: boolean;
  /** `web` is 80 and 443. */
  readonly port: number | 'web' | 'any';
}

const nameBytes = 253;
const label = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** What resolvers and browsers read as an address: `127.1`, `0x7f000001`, `2130706433`. */
const numeric = /^(\d+|0x[0-9a-f]*)$/;

/** The one spelling of a host name: lower case, no final dot. Undefined: an address, or no host name at all. */
export function normaliseHost(text: string): string | undefined {
  const host = text.toLowerCase().replace(/\.$/, '');
  const labels = host.split('.');
  if (host.length > nameBytes || !labels.every((part) => label.test(part))) return undefined;
  return numeric.test(labels.at(-1) ?? '') ? undefined : host;
}

/** 1 to 65535, in decimal. */
export function parsePort(text: string): number | undefined {
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : undefined;
}

/** `example.org`, `*.example.org`, either with `:port`. Undefined: none of these. */
export function parseHostPattern(text: string): HostPattern | undefined {
  const [, name = '', portText] = /^([^:]*)(?::([^:]*))?$/.exec(text) ?? [];
  const below = name.startsWith('*.');
  const host = normaliseHost(below ? name.slice(2) : name);
  const port = portText === undefined ? 'web' : parsePort(portText);
  return host === undefined || port === undefined ? undefined : { host, below, port };
}

/** What an operator may write: also `*` for every host, and `:*` for every port. */
export function parseOperatorPattern(text: string): HostPattern | undefined {
  const anyPort = text.endsWith(':*');
  const bare = anyPort ? text.slice(0, -2) : text;
  if (anyPort && bare.includes(':')) return undefined;
  const [, everyHost, port] = /^(\*)(:\d+)?$/.exec(bare) ?? [];
  const found = everyHost === undefined ? parseHostPattern(bare) : parseHostPattern(`*.all${port ?? ''}`);
  if (found === undefined) return undefined;
  return { ...found, ...(everyHost === undefined ? {} : { host: '' }), ...(anyPort ? { port: 'any' as const } : {}) };
}

/** Whether the pattern stands for this host, which is normalised, on this port. */
export function matchesHost(pattern: HostPattern, host: string, port: number): boolean {
  return coversName(pattern, host, false) && coversPort(pattern.port, port);
}

/** Whether everything that `asked` stands for is within `limit`. */
export function coversPattern(limit: HostPattern, asked: HostPattern): boolean {
  return coversName(limit, asked.host, asked.below) && coversPort(limit.port, asked.port);
}

function coversName(limit: HostPattern, host: string, below: boolean): boolean {
  if (!limit.below) return !below && host === limit.host;
  return limit.host === '' || host.endsWith(`.${limit.host}`) || (below && host === limit.host);
}

function coversPort(limit: HostPattern['port'], port: HostPattern['port']): boolean {
  if (limit === 'any' || limit === port) return true;
  return limit === 'web' && (port === 80 || port === 443);
}
