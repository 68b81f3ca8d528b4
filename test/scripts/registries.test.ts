import { expect, test } from 'vitest';
import { hostsOf } from '../../scripts/setup/registries.mjs';

test('hosts are taken from URLs, each once, with a port only where it is unusual', () => {
  const text = `https://packages.example/simple\nhttp://mirror.example/debian/ http://mirror.example/security\n
    https://user:secret@private.example:8443/npm/ undefined file:///opt/wheels ftp://old.example/`;
  expect(hostsOf(text)).toEqual(['mirror.example', 'packages.example', 'private.example:8443']);
});

test('an address is none', () => {
  expect(hostsOf('http://192.0.2.1/simple http://[2001:db8::1]:8080/ http://0x7f.1/')).toEqual([]);
});
