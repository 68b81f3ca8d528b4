import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  type CloseReason,
  type Connection,
  type ConnectionTable,
  createConnectionTable,
} from '../../../services/sessions/server/connection-table.ts';
import { networkOf } from '../../../services/sessions/server/network-address.ts';

const limits = { connections: 4, connectionsPerAddress: 3, connectionsPerProject: 4, unprovenMs: 1_000, idleMs: 5_000 };
let ms: number;
let table: ConnectionTable;
let closed: [string, CloseReason][];
beforeEach(() => {
  ms = 0;
  closed = [];
  table = createConnectionTable(limits, () => ms);
});
afterEach(() => table.close());

function open(name: string, address: string): Connection {
  const connection = table.open(address, (reason) => {
    closed.push([name, reason]);
    connection.gone();
  });
  return connection;
}
function openProven(name: string, address: string, project = 'alpha'): Connection {
  const connection = open(name, address);
  connection.prove(project);
  return connection;
}

describe('when all places are taken', () => {
  test('the oldest that brought no key goes, of the address that has most of them', () => {
    open('single', '192.0.2.1');
    for (const name of ['first', 'second', 'third']) open(name, '192.0.2.2');
    expect(open('newcomer', '192.0.2.3').refusal).toBeUndefined();
    expect(closed).toEqual([['first', 'evicted']]);
  });

  test('those with an open call that needs no key go after those without', () => {
    const watching = open('watching', '192.0.2.2');
    watching.begin();
    open('waiting', '192.0.2.2');
    for (const name of ['a', 'b']) openProven(name, '192.0.2.1');
    open('newcomer', '192.0.2.3');
    open('next', '192.0.2.4');
    expect(closed).toEqual([
      ['waiting', 'evicted'],
      ['watching', 'evicted'],
    ]);
  });

  test('one that brought a key goes only when it was idle for long, and never during a call', () => {
    const busy = ['a', 'b', 'c'].map((name, at) => openProven(name, `192.0.2.${at}`));
    for (const connection of busy) connection.begin();
    const end = openProven('resting', '192.0.2.9').begin();
    end();
    expect(open('early', '192.0.2.7').refusal).toMatchObject({ reason: 'CONNECTION_QUOTA', code: 14 });
    ms = 1_001;
    expect(open('later', '192.0.2.7').refusal).toBeUndefined();
    expect(closed).toEqual([['resting', 'evicted']]);
  });

  test('a connection that is closed gives its place back, once', () => {
    const connections = ['a', 'b', 'c', 'd'].map((name, at) => openProven(name, `192.0.2.${at}`));
    for (const connection of connections) connection.begin();
    connections[0]?.gone();
    connections[0]?.gone();
    expect(openProven('e', '192.0.2.8').refusal).toBeUndefined();
    expect(open('f', '192.0.2.8').refusal).toBeDefined();
  });

  test('of those that are told so the first goes for the last', () => {
    for (const [at, name] of ['a', 'b', 'c', 'd'].entries()) openProven(name, `192.0.2.${at}`).begin();
    for (let at = 0; at < 256; at++) open(`refused ${at}`, '192.0.2.9');
    expect(closed).toEqual([]);
    open('last', '192.0.2.9');
    expect(closed).toEqual([['refused 0', 'evicted']]);
  });
});

test('a newcomer costs the same however many addresses have connections', () => {
  let looks = 0;
  table.close();
  table = createConnectionTable({ ...limits, connections: 100, connectionsPerProject: 100 }, () => {
    looks += 1;
    return ms;
  });
  for (let at = 0; at < 100; at++) openProven(`idle ${at}`, `192.0.2.${at}`);
  looks = 0;
  expect(open('early', '198.51.100.1').refusal).toBeDefined();
  ms = 1_001;
  expect(open('later', '198.51.100.1').refusal).toBeUndefined();
  expect(closed).toEqual([['idle 0', 'evicted']]);
  expect(looks).toBeLessThan(10);
});

test('the address that has most without a key is known as they come, bring one and go', () => {
  const [first, second, third] = ['a', 'b', 'c'].map((name) => open(name, '192.0.2.1'));
  open('single', '192.0.2.2');
  second?.prove('alpha');
  third?.gone();
  open('other', '192.0.2.2');
  open('newcomer', '192.0.2.3');
  expect(closed).toEqual([['single', 'evicted']]);
  first?.gone();
  open('next', '192.0.2.4');
  expect(closed).toHaveLength(1);
});

describe('one address', () => {
  test('has so many, and the others are left alone', () => {
    openProven('other', '192.0.2.2').begin();
    for (const name of ['a', 'b', 'c']) openProven(name, '192.0.2.1').begin();
    expect(open('d', '192.0.2.1').refusal?.message).toContain('ASSAY_LIMIT_CONNECTIONS_PER_ADDRESS');
    expect(closed).toEqual([]);
  });

  test('that is IPv6 is its first half, and an IPv4 address in IPv6 is that address', () => {
    expect(networkOf('2001:db8:1:2:3::4')).toBe('2001:db8:1:2::/64');
    expect(networkOf('2001:0db8::1')).toBe('2001:db8:0:0::/64');
    expect(networkOf('::1')).toBe('0:0:0:0::/64');
    expect(networkOf('fe80::1%eth0')).toBe('fe80:0:0:0::/64');
    expect(networkOf('::ffff:192.0.2.1')).toBe('192.0.2.1');
    expect(networkOf('192.0.2.1')).toBe('192.0.2.1');
  });
});

describe('one project', () => {
  beforeEach(() => {
    table.close();
    table = createConnectionTable({ ...limits, connectionsPerProject: 2 }, () => ms);
  });

  test('has so many from all addresses, and what it opens beyond goes for the next newcomer', () => {
    const kept = ['a', 'b'].map((name, at) => openProven(name, `192.0.2.${at}`));
    for (const connection of kept) connection.begin();
    for (const name of ['c', 'd']) {
      const over = open(name, '192.0.2.3');
      over.begin();
      const message = 'the project has 2 open connections, the limit (ASSAY_LIMIT_CONNECTIONS_PER_PROJECT)';
      const refusal = { reason: 'CONNECTION_QUOTA', message: expect.stringContaining(message) };
      expect(() => over.prove('alpha')).toThrow(expect.objectContaining(refusal));
    }
    expect(openProven('other', '192.0.2.4', 'beta').refusal).toBeUndefined();
    expect(closed).toEqual([['c', 'evicted']]);
  });

  test('gets the place of a connection back when that closes, and keeps one that it has', () => {
    const [first, second] = ['a', 'b'].map((name, at) => openProven(name, `192.0.2.${at}`));
    second?.prove('alpha');
    first?.gone();
    first?.gone();
    expect(() => openProven('c', '192.0.2.3')).not.toThrow();
    expect(() => openProven('d', '192.0.2.3')).toThrow('ASSAY_LIMIT_CONNECTIONS_PER_PROJECT');
  });
});
