"""Methods and links as code of one's own: one function of torch in the form that a trainer asks for.

`losses` has `export_loss`, which fills the templates beside it: `base.py.jinja` is the function, TRAINER.py.jinja what a
trainer's hook gives and wants, `weights.py.jinja` the formulas; `exports.toml` says what each hook is given. `links` has
`export_link`. `checking` calls the written code as the trainer would, and compares it with the method that it came from.
"""
