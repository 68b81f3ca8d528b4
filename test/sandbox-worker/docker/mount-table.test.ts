import { expect, test } from 'vitest';
import { readMounts } from '../../../services/sandbox-worker/docker/mount-table.ts';

test('mount points with spaces are read as they are, and odd lines are passed over', () => {
  const table = [
    '22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw',
    '99 22 7:3 / /var/lib/a\\040b\\134c rw,noatime - ext4 /dev/loop3 rw,nodiscard',
    'nonsense',
    '',
  ].join('\n');
  expect(readMounts(table)).toEqual([
    { mountPoint: '/', source: '/dev/vda', fileSystem: 'ext4', options: 'rw' },
    { mountPoint: '/var/lib/a b\\c', source: '/dev/loop3', fileSystem: 'ext4', options: 'rw,nodiscard' },
  ]);
});
