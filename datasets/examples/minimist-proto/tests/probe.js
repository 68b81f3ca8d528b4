const parse = require('/workspace');
const { args, options } = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const kinds = { function: () => {}, object: {}, array: [], string: 'x', number: 1 };
const seen = () =>
  Object.fromEntries(
    Object.entries(kinds).map(([name, value]) => {
      const found = [];
      for (const key in Object(value)) if (!Object.hasOwn(Object(value), key)) found.push(key);
      return [name, found.sort()];
    }),
  );
const result = parse(args, options);
const gained = seen();
const intact = [].constructor === Array && {}.constructor === Object && (() => 0).constructor === Function;
console.log(JSON.stringify({ result, gained, intact }));
