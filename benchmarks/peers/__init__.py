"""Other systems at the same work. These modules run in a virtual environment of their own and import none of ours."""
