import { isIP } from 'node:net';
import { normaliseHost, parsePort } from '../../../shared/host-pattern.ts';
import { Refusal, show } from './refusal.ts';

/** Where a client wants to go. */
export interface Target {
  /** Normalised. */
  readonly host: string;
  readonly port: number;
}

/** `host:port`, as CONNECT has it. */
export function connectTarget(authority: string): Target {
  const target = targetOf(authority, undefined);
  if (target !== undefined) return target;
  throw new Refusal(400, `found ${show(authority)}; expected CONNECT host:port`);
}

/** `http://host[:port]/path`, as a request to a proxy has it. */
export function requestTarget(url: string): Target & { readonly path: string } {
  const [, scheme, authority = '', rest = ''] = /^([a-z]+):\/\/([^/?#]*)([^#]*)$/i.exec(url) ?? [];
  if (scheme === undefined) {
    throw new Refusal(400, `found ${show(url)}; expected http://host/path, this is a proxy`);
  }
  if (scheme.toLowerCase() !== 'http') {
    throw new Refusal(400, `found the scheme ${show(scheme)}; expected http, or CONNECT host:port for anything else`);
  }
  const target = targetOf(authority, 80);
  if (target === undefined) throw new Refusal(400, `found the host ${show(authority)}; expected host or host:port`);
  return { ...target, path: rest.startsWith('/') ? rest : `/${rest}` };
}

function targetOf(authority: string, otherwise: number | undefined): Target | undefined {
  const bracketed = /^\[[^\]]*\](:\d+)?$/.test(authority);
  const [, name = '', portText] = /^([^:@[\]]+)(?::(\d+))?$/.exec(authority) ?? [];
  const host = normaliseHost(name);
  const port = portText === undefined ? otherwise : parsePort(portText);
  if (host !== undefined && port !== undefined) return { host, port };
  if (bracketed || isIP(name) !== 0 || isNumeric(name)) {
    throw new Refusal(403, `host ${show(authority)} is an address; only host names can be on an allow-list`);
  }
  return undefined;
}

/** The spellings of an address that are no plain one, such as 0x7f.1. */
function isNumeric(name: string): boolean {
  return (
    name !== '' && normaliseHost(name) === undefined && normaliseHost(`${name.replace(/\.$/, '')}.a`) !== undefined
  );
}
