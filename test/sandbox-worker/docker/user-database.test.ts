import { describe, expect, test } from 'vitest';
import { findHome, findNames, withSessionUser } from '../../../services/sandbox-worker/docker/user-database.ts';

const root = 'root:x:0:0:root:/root:/bin/sh';

describe('the home of uid 1000', () => {
  test('is found whatever the name of the user', () => {
    expect(findHome(`${root}\nnode:x:1000:1000::/home/node:/bin/sh\n`)).toBe('/home/node');
  });

  test.each(['', '/', 'relative', '/a/../etc', '/a b', '/a\u0000', '/x'.repeat(200)])(
    'is not taken from "%s"',
    (home) => {
      expect(findHome(`u:x:1000:1000::${home}:/bin/sh`)).toBeUndefined();
    },
  );

  test('is unknown in an empty, short or odd file', () => {
    for (const text of ['', '\n\n', '1000', 'u:x:1000:1000', ':::::::']) expect(findHome(text)).toBeUndefined();
  });
});

test('the names of uid 1000 are all that it has, and no other', () => {
  const two = 'node:x:1000:1000::/home/node:/bin/sh\nme:x:1000:5::/me:/bin/sh\nx:1000:1:1::/:/\n';
  expect(findNames(`${root}\n${two}`)).toEqual(['node', 'me']);
  expect(findNames(root)).toEqual([]);
});

describe('adding the session user', () => {
  test('keeps what is there and repairs a missing newline', () => {
    expect(withSessionUser(root, 'root:x:0:')).toEqual({
      passwd: `${root}\nagent:x:1000:1000::/home/agent:/bin/sh\n`,
      group: 'root:x:0:\nagent:x:1000:\n',
      home: '/home/agent',
      changed: true,
    });
  });

  test('takes another name where agent is somebody else', () => {
    const { passwd } = withSessionUser('agent:x:7:7::/srv:/bin/sh\n', '');
    expect(passwd).toContain('agent2:x:1000:1000::');
  });

  test('replaces an entry whose home cannot be used', () => {
    const { passwd, home } = withSessionUser(`${root}\nbad:x:1000:1000::/:/bin/sh\n`, '');
    expect(home).toBe('/home/agent');
    expect(passwd).not.toContain('bad');
    expect(findHome(passwd)).toBe('/home/agent');
  });

  test('changes nothing where all is there', () => {
    const passwd = `${root}\nnode:x:1000:1000::/home/node:/bin/sh\n`;
    expect(withSessionUser(passwd, 'node:x:1000:\n')).toMatchObject({ passwd, changed: false });
  });
});
