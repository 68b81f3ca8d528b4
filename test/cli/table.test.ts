import { expect, test } from 'vitest';
import { renderFields, renderSize, renderSpan, renderTable } from '../../cli/table.ts';

test('columns line up and lines have no blanks at their end', () => {
  expect(
    renderTable(
      ['A', 'LONG', 'C'],
      [
        ['one', 'x', 'y'],
        ['1', 'longer', ''],
      ],
    ),
  ).toBe(['A    LONG    C', 'one  x       y', '1    longer'].join('\n'));
});

test('fields without a value are left out', () => {
  expect(
    renderFields([
      ['name', 'x'],
      ['gone', undefined],
      ['none', ''],
      ['longer', 'y'],
    ]),
  ).toBe('name    x\nlonger  y');
});

test.each([
  [500, '1s'],
  [119_000, '119s'],
  [120_000, '2m'],
  [7_200_000, '2h'],
  [-5, '0s'],
])('%i ms is shown as %s', (ms, text) => {
  expect(renderSpan(ms)).toBe(text);
});

test.each([
  [1023, '1023 B'],
  [512 * 2 ** 20, '512 MiB'],
  [2 ** 30, '1 GiB'],
  [1_500_000, '1464.8 KiB'],
])('%i bytes are shown as %s', (bytes, text) => {
  expect(renderSize(bytes)).toBe(text);
});
