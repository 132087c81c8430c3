/** A form generated from a JSON schema: its fields by group, with labels, help, defaults and messages. */
import { Collapse, UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { type ReactNode, useId, useState } from "react";

import { BASICS, type Field, groupsOf, LOGIN, toRequest, type Values } from "./fields";
import { FieldInput, type Inputs } from "./inputs";
import classes from "./schema-form.module.css";
import type { Errors } from "./validation";

type Props = {
  fields: Field[];
  values: Values;
  onChange: (name: string, value: unknown) => void;
  /** Called with the text and the name of a file whose content becomes a value. */
  onFile?: (name: string, file: string) => void;
  onBlur?: (name: string) => void;
  errors: Errors;
  /** Inputs for formats that the form itself does not know. */
  inputs?: Inputs;
};

export function SchemaForm(props: Props) {
  return (
    <div className={classes.form}>
      {groupsOf(props.fields).map(({ name, fields }) =>
        name === BASICS ? (
          <FieldList key={name} {...props} fields={fields} />
        ) : name === LOGIN ? (
          <fieldset key={name} className={classes.group}>
            <legend className={classes.legend}>{headingOf(name)}</legend>
            <FieldList {...props} fields={fields} />
          </fieldset>
        ) : (
          <Folded key={name} title={headingOf(name)} isOpen={fields.some((field) => field.name in props.errors)} hint={given(fields, props.values)}>
            <FieldList {...props} fields={fields} />
          </Folded>
        ),
      )}
    </div>
  );
}

function FieldList({ fields, values, onChange, onFile, onBlur, errors, inputs }: Props) {
  return (
    <div className={classes.fields}>
      {fields.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          value={values[field.name]}
          onChange={(value) => onChange(field.name, value)}
          onFile={(file) => onFile?.(field.name, file)}
          onBlur={() => onBlur?.(field.name)}
          error={errors[field.name]}
          inputs={inputs}
        />
      ))}
    </div>
  );
}

/** A part of a form that is opened by its heading, or because a field in it is not valid. */
function Folded({ title, isOpen, hint, children }: { title: string; isOpen: boolean; hint: string; children: ReactNode }) {
  const [isChosen, setChosen] = useState(false);
  const id = useId();
  const open = isChosen || isOpen;
  return (
    <div className={classes.folded}>
      <UnstyledButton className={classes.fold} aria-expanded={open} aria-controls={id} onClick={() => setChosen(!open)}>
        <IconChevronRight size={15} className={classes.chevron} data-open={open || undefined} aria-hidden />
        {title}
        {hint && <span className={classes.hint}>{hint}</span>}
      </UnstyledButton>
      <div id={id}>
        <Collapse expanded={open}>
          <div className={classes.foldedBody}>{open && children}</div>
        </Collapse>
      </div>
    </div>
  );
}

function given(fields: Field[], values: Values): string {
  const count = Object.keys(toRequest(fields, values)).length;
  return count ? `${count} set` : "";
}

const headingOf = (group: string): string => group.charAt(0).toUpperCase() + group.slice(1);
