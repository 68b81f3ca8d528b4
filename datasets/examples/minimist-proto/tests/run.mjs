import assert from 'node:assert';
import { parse } from './driver.mjs';

const { finish, test } = await import(`${process.env.ASSAY_LIB}/assay-isolated.mjs`);

test("a method's constructor is not followed", () => {
  assert.deepStrictEqual(parse(['--_.concat.constructor.prototype.y', '123']), { _: [] });
  assert.deepStrictEqual(parse(['--_.map.constructor.prototype.zed', 'a', '-v']), { _: [], v: true });
  assert.deepStrictEqual(parse(['--_.push.constructor.prototype.a.b', '1', 'rest']), { _: ['rest'] });
});

test("the constructor of the result's array is not followed", () => {
  assert.deepStrictEqual(parse(['--_.constructor.constructor.prototype.foo', 'bar']), { _: [] });
  assert.deepStrictEqual(parse(['--_.constructor.prototype.q', '1', '--ok', '2']), { _: [], ok: 2 });
  assert.deepStrictEqual(parse(['--a.b', '1', '--a.constructor.prototype.q', '1']), { _: [], a: { b: 1 } });
});

test('a constructor is not replaced at the end of a name', () => {
  assert.deepStrictEqual(parse(['--a.b', '1', '--a.constructor', 'x']), { _: [], a: { b: 1 } });
  assert.deepStrictEqual(parse(['--_.constructor', 'x', '--n', '3']), { _: [], n: 3 });
});

test('dotted names make nested objects', () => {
  assert.deepStrictEqual(parse(['--a.b.c', '1', '--a.b.d', 'x', '--a.e']), {
    _: [],
    a: { b: { c: 1, d: 'x' }, e: true },
  });
  assert.deepStrictEqual(parse(['--beep.boop', '5', '--beep.boop', '6']), { _: [], beep: { boop: [5, 6] } });
});

test('__proto__ is ignored', () => {
  assert.deepStrictEqual(parse(['--__proto__.x', '123', '--a', '1']), { _: [], a: 1 });
  assert.deepStrictEqual(parse(['--a.__proto__.y', '1', '--a.b', '2']), { _: [], a: { b: 2 } });
});

test('flags, values, numbers and rest', () => {
  assert.deepStrictEqual(parse(['-abc', '--n=5', '--no-color', 'x', '--', '-y']), {
    _: ['x', '-y'],
    a: true,
    b: true,
    c: true,
    n: 5,
    color: false,
  });
  assert.deepStrictEqual(parse(['--id', '007', '-t', '0x10'], { string: ['id'] }), { _: [], id: '007', t: 16 });
  assert.deepStrictEqual(parse(['-f', 'a', '--file=b'], { alias: { f: 'file' } }), {
    _: [],
    f: ['a', 'b'],
    file: ['a', 'b'],
  });
});

test("a constructor of the caller's own is data", () => {
  assert.deepStrictEqual(parse(['--a.prototype.b', '7']), { _: [], a: { prototype: { b: 7 } } });
  assert.deepStrictEqual(parse(['--x.concat', '7']), { _: [], x: { concat: 7 } });
});

finish();
