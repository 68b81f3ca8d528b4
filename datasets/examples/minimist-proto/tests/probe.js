// The process that loads the submission is the submission's, and so is whatever it can replace. So all that is needed is
// taken before, and beside the traces of the submission those are told that were planted here: the blind tell too little.
const { readFileSync, writeSync } = require('node:fs');
const { getPrototypeOf, hasOwn } = Object;
const { isArray } = Array;
const { stringify } = JSON;
const constructors = [Array, Object, Function];
const { args, options, planted } = JSON.parse(readFileSync(0, 'utf8'));
const kinds = [() => {}, {}, [], '', 1];

const result = require('/workspace')(args, options);
const intact =
  [].constructor === constructors[0] && {}.constructor === constructors[1] && (() => 0).constructor === constructors[2];

/** As JSON.stringify, without what a toJSON of somebody else's would make of it. */
function show(value) {
  if (value === null || typeof value !== 'object') return stringify(value) ?? 'null';
  let text = '';
  const add = (part) => {
    text += text === '' ? part : `,${part}`;
  };
  if (isArray(value)) {
    for (let at = 0; at < value.length; at += 1) add(show(value[at]));
    return `[${text}]`;
  }
  for (const key in value) if (hasOwn(value, key)) add(`${stringify(key)}:${show(value[key])}`);
  return `{${text}}`;
}

/** What can be seen of a value that has nothing of its own. */
function seen(value) {
  let text = '';
  for (const key in value) text += text === '' ? stringify(key) : `,${stringify(key)}`;
  return `[${text}]`;
}

const shown = show(result);
for (let at = 0; at < kinds.length; at += 1) getPrototypeOf(kinds[at])[planted[at]] = 1;
let gained = '';
for (let at = 0; at < kinds.length; at += 1) gained += `${at === 0 ? '' : ','}${seen(kinds[at])}`;
writeSync(1, `{"result":${shown},"gained":[${gained}],"intact":${intact}}\n`);
