import { Box, Group, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import classes from "./page.module.css";

type Props = {
  title: ReactNode;
  /** The title of the browser's tab, if `title` is not a text. */
  name?: string;
  description?: ReactNode;
  actions?: ReactNode;
  /** The pages above this one. */
  crumbs?: { label: string; to: string }[];
  /** Whether the page is as high as the window, for content that scrolls by itself. */
  fillsHeight?: boolean;
  children: ReactNode;
};

/** A page: heading, actions at the right, content. */
export function Page({ title, name, description, actions, crumbs, fillsHeight, children }: Props) {
  useDocumentTitle(`${name ?? (typeof title === "string" ? title : "Studio")} · Windlass`);
  return (
    <Box className={classes.page} data-fills={fillsHeight || undefined}>
      <Group justify="space-between" align="flex-start" gap="sm" mb={fillsHeight ? "sm" : "md"}>
        <div className={classes.heading}>
          {crumbs && (
            <nav aria-label="Breadcrumbs" className={classes.crumbs}>
              {crumbs.map(({ label, to }) => (
                <span key={to}>
                  <Link to={to}>{label}</Link>
                  <span aria-hidden> / </span>
                </span>
              ))}
            </nav>
          )}
          <Title order={1}>{title}</Title>
          {description && (
            <Text c="dimmed" size="sm" component="div">
              {description}
            </Text>
          )}
        </div>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Box>
  );
}

/** A bordered part of a page with a small heading. */
export function Section({ title, actions, children }: { title?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className={classes.section}>
      {(title || actions) && (
        <Group justify="space-between" className={classes.sectionHead} gap="xs">
          <Title order={2} size="h3">
            {title}
          </Title>
          {actions && <Group gap={4}>{actions}</Group>}
        </Group>
      )}
      <div className={classes.sectionBody}>{children}</div>
    </section>
  );
}

/** Names and values in two columns. */
export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <dl className={classes.facts}>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value ?? "–"}</dd>
        </div>
      ))}
    </dl>
  );
}
