/** The operator's own project: its admins may make keys for other projects. */
export const operatorProject = 'default';

export const projectShape = /^[a-z0-9-]{1,40}$/;
