import { markSpans, rangesOf, plain, spansOf } from "./ansi";
import classes from "./logs.module.css";

type Props = { text: string; codes?: string; search?: string };

/** A line of a log in its colours, with what was searched for marked. */
export function LineText({ text, codes = "", search = "" }: Props) {
  const spans = markSpans(spansOf(text, codes), search ? rangesOf(plain(text), search) : []);
  return (
    <span className={classes.text}>
      {spans.map(({ text: part, className, color, background, isMarked }, index) => {
        const style = color || background ? ({ "--own": color, "--own-background": background } as object) : undefined;
        const Tag = isMarked ? "mark" : "span";
        return className || isMarked || style ? (
          <Tag key={index} className={className} style={style}>
            {part}
          </Tag>
        ) : (
          part
        );
      })}
      {"\n"}
    </span>
  );
}
